#!/usr/bin/env bash
# Make .venv and install what the runtime or the developers need: install.sh runtime|dev
#
# Needs nothing but Python >= 3.11 and Java >= 17. Everything comes from hashed lists; uv is taken
# where it can be had (it is several times faster), pip otherwise. Safe to repeat: what is there
# already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
list=${1:?runtime or dev}

SELDOM='/(tests?|testing|moto|pip|libcst|altair|hive_metastore|lexers|f2py|mypyc?|setuptools|pkg_resources|mllib|pyspark/pandas)/'

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf '\n%s\n' "$*" >&2; exit 2; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.11 python3.12 python3.13; do
    if command -v "$candidate" > /dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
      echo "$candidate" && return
    fi
  done
  die "Strata needs Python 3.11 or newer; '${PYTHON:-python3}' is older or missing.
On Debian or Ubuntu: apt-get install python3 python3-venv. Elsewhere on the path: make PYTHON=/where/it/is"
}

check_java() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java major
  local cure="On Debian or Ubuntu: apt-get install openjdk-17-jre-headless"
  command -v "$java" > /dev/null || die "Strata runs on Spark, which needs Java 17 or newer; there is no '$java'.
$cure"
  major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1)
  [ "${major:-0}" -ge 17 ] || die "Strata runs on Spark, which needs Java 17 or newer; '$java' is ${major:-unknown}.
$cure"
}

make_venv() { # DIRECTORY
  [ -x "$1/bin/python" ] || "$(find_python)" -m venv "$1" || die "no virtual environment could be made.
On Debian or Ubuntu: apt-get install python3-venv"
}

find_uv() { # prints the path of the pinned uv, or nothing
  [ -z "${STRATA_WITHOUT_UV:-}" ] || return 0
  local pinned
  pinned=$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements/uv.txt)
  if [ "$(.venv-uv/bin/uv --version 2> /dev/null | cut -d' ' -f2)" != "$pinned" ]; then
    make_venv .venv-uv
    .venv-uv/bin/python -m pip install --quiet --require-hashes --no-deps \
      -r requirements/uv.txt >&2 || { say "uv is not to be had here: pip does it, slower"; return 0; }
  fi
  echo "$PWD/.venv-uv/bin/uv"
}

python_is=$(find_python)
check_java
unset PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME  # compiled code starts in half the time
say "Python: $("$python_is" --version), environment: .venv, list: requirements/$list.txt"
started=$SECONDS
make_venv .venv &  # beside that of uv: each takes 5 s
uv=$(find_uv)
wait "$!"
# --no-deps: the list is complete, and the one name left out on purpose (pyspark-client, see
# docs/explanation/decisions/0002-one-environment.md) must not come back.
if [ -n "$uv" ] && VIRTUAL_ENV=$PWD/.venv "$uv" pip install --require-hashes --no-deps \
  --build-constraints requirements/build.txt -r "requirements/$list.txt" >&2; then
  # Uncompiled, Airflow's processes take twice as long to start. What no process imports whole is
  # left to its first import; a template that is no Python is no error.
  .venv/bin/python -m compileall -q -j 0 -x "$SELDOM" .venv/lib/python*/site-packages > /dev/null || true
  VIRTUAL_ENV=$PWD/.venv "$uv" pip install --quiet --no-deps \
    --build-constraints requirements/build.txt --editable . >&2
else
  .venv/bin/python -m pip install --require-hashes --no-deps -r "requirements/$list.txt" >&2
  .venv/bin/python -m pip install --quiet --no-deps --editable . >&2
fi
if compgen -G ".venv/lib/python*/site-packages/strata-[0-9]*.dist-info" > /dev/null; then
  .venv/bin/python -m pip uninstall --quiet --yes strata >&2  # what strata-shards was called before
fi
.venv/bin/python -m strata.kernels --ready >&2  # or the first job would wait for the compiler
say "Installed in $((SECONDS - started)) s, $(du -sh .venv | cut -f1)"
