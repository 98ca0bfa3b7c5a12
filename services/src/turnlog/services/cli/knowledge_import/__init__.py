"""Import of knowledge: files of a folder as entries of a collection."""
