#!/bin/sh
# Fetches the jar with Flink's own web page with Maven into .flink-ui, once, for the journey that drives a cluster with it.
set -eu
cd "$(dirname "$0")/.."
VERSION=2.2.0

if [ ! -f ".flink-ui/flink-runtime-web-$VERSION.jar" ]; then
    command -v mvn >/dev/null 2>&1 || {
        echo "flink_ui: Maven fetches the jar and was not found (apt-get install maven)" >&2
        exit 1
    }
    mvn -q -B dependency:copy -Dartifact="org.apache.flink:flink-runtime-web:$VERSION:jar" -DoutputDirectory="$PWD/.flink-ui"
fi
