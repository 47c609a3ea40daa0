"""The data plane: takes users requests to the endpoints that the snapshot allows."""
