"""The arrays that kernels work on: contiguous, of these four types and no other."""

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Int = int | np.int64  # one to the compiler
