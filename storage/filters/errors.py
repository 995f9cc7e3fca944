"""What is wrong with a filter, and where."""


class FilterError(Exception):
    """A filter that cannot be understood. `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"At position {position}: {message}")
        self.message = message
        self.position = position
