"""Plain building blocks of the engine: ids, clock, batches, stream elements, serializers, the canonical key encoding."""
