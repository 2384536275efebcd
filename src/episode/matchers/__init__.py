"""The matchers: state, feeding, snapshots and output assembly around compiled code."""
