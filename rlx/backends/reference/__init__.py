"""The reference device: graphs op by op, each by its NumPy reference."""
