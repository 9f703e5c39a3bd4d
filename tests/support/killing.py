"""Work in a child process that is killed after some time."""

import os
import signal
import time
import traceback
from collections.abc import Callable


def killed_at_work(work: Callable[[], object], seconds: float) -> bool:
    """Work in a child, kill it after some time; return whether it was still at work.

    The work has to open its stores itself: what the parent has opened is not for a child.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
