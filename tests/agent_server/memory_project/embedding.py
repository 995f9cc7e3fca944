"""An embedding without a model: how much a text is about animals, colours and numbers."""

_TOPICS = (("cat", "dog", "horse"), ("red", "blue", "green"), ("one", "two", "three"))


async def embed(texts: list[str]) -> list[list[float]]:
    if any("unembeddable" in text for text in texts):
        raise RuntimeError("the embedding was told to fail")
    return [[0.01 + sum(word in text.lower() for word in topic) for topic in _TOPICS] for text in texts]
