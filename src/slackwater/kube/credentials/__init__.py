"""Where access to a cluster comes from: the pod service account or kubeconfig files."""
