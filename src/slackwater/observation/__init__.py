"""The only readers: kernel, host and kubelet files into model values. Writes nothing."""
