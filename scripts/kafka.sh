#!/bin/sh
# Fetches the jars of a Kafka broker with Maven into .kafka, once; with "run", starts a broker in the foreground; with
# "registry", fetches a schema registry for the tests, too (Apicurio, 110 MB).
#
# The broker listens on 127.0.0.1:9092 (TIDEMARK_KAFKA_PORT, and the port behind it) and keeps its data in .tidemark/kafka.
set -eu
cd "$(dirname "$0")/.."
LIBS=.kafka/libs
VERSION=$(sed -n 's:.*<version>\([0-9.]*\)</version>.*:\1:p' scripts/kafka/pom.xml | sed -n 2p)

if [ ! -f "$LIBS/kafka_2.13-$VERSION.jar" ]; then
    command -v mvn >/dev/null 2>&1 || {
        echo "kafka: Maven fetches the broker's jars and was not found (apt-get install maven)" >&2
        exit 1
    }
    rm -rf "$LIBS"
    mvn -q -B -f scripts/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$PWD/$LIBS.new"
    mv "$LIBS.new" "$LIBS"
fi

REGISTRY=2.6.13.Final
if [ "${1:-}" = registry ] && [ ! -f ".kafka/registry/apicurio-registry-app-$REGISTRY-runner.jar" ]; then
    rm -rf .kafka/registry .kafka/registry.new
    mkdir .kafka/registry.new
    mvn -q -B dependency:copy -Dartifact="io.apicurio:apicurio-registry-app:$REGISTRY:tar.gz:all" \
        -DoutputDirectory="$PWD/.kafka/registry.new"
    tar -xzf .kafka/registry.new/*.tar.gz -C .kafka/registry.new
    rm .kafka/registry.new/*.tar.gz
    mv .kafka/registry.new .kafka/registry
fi
[ "${1:-}" = run ] || exit 0

port=${TIDEMARK_KAFKA_PORT:-9092}
data=$PWD/.tidemark/kafka
mkdir -p "$data"
cat > "$data/server.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
controller.listener.names=CONTROLLER
log.dirs=$data/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
EOF
if [ ! -f "$data/log/meta.properties" ]; then
    id=$(java -cp "$LIBS/*" kafka.tools.StorageTool random-uuid 2>/dev/null)
    java -cp "$LIBS/*" kafka.tools.StorageTool format --standalone -t "$id" -c "$data/server.properties" >/dev/null 2>&1
fi
echo "Kafka $VERSION on 127.0.0.1:$port; Ctrl-C ends it"
exec java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$LIBS/*" kafka.Kafka "$data/server.properties"
