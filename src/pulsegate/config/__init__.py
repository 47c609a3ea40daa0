"""From one YAML file to the specifications that the core works with."""

from pulsegate.config.environment import process_environment
from pulsegate.config.errors import ConfigError, ConfigErrors, Problem
from pulsegate.config.loading import Config, load, parse

__all__ = ["Config", "ConfigError", "ConfigErrors", "Problem", "load", "parse", "process_environment"]
