"""What Koordinator's users write: the ConfigMap slo-controller-config, labels and annotations."""
