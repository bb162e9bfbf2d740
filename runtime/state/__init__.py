"""State: descriptors, key groups, keyed state backends, operator state, timers, snapshots and their redistribution.

Layer: above `core` and `metrics`, below `graph`. Import from the modules; `runtime.datastream.state` re-exports the
public names. `hashmap/` keeps Python objects on the heap.
"""
