"""The matchers: state, feeding, snapshots and output assembly on top of the kernels."""
