"""The only place that knows everybody: wires adapters to the control process."""
