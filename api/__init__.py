"""The facade: one package per API area. Translates REST into workflow starts, signals and queries."""
