"""Media: pictures, recordings and files, which are uploaded once and named by digest."""
