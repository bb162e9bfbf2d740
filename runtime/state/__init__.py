"""State: descriptors, key groups, keyed state backends, operator state, timers, snapshots and how they are dealt out.

Layer: above `core` and `metrics`, below `graph`. Import from the modules; `runtime.datastream.state` re-exports what is
public. `hashmap/` keeps Python objects on the heap.
"""
