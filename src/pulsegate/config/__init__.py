"""From one YAML file to the specifications that the core works with."""
