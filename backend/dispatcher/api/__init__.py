"""Views of Flink's routes: they read parameters, call the cluster services and build responses with the shapes."""
