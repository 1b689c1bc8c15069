"""Another compat_ops, of somebody else."""
