"""Views of Flink's routes: read the parameters, ask the cluster, hand on to the shapes."""
