"""Where revision workers run: as processes of the listener's host, or in a Kubernetes cluster."""
