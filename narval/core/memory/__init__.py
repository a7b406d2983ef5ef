"""The memory of an agent: elements, the contexts that hold them, the conditions that wait for them."""
