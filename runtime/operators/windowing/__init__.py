"""Windows: assigners, triggers, window operators. `runtime.operators` re-exports the public names."""
