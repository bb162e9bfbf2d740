"""Plain building blocks of the engine: ids, clock, batches, stream elements, serializers, the key encoding."""
