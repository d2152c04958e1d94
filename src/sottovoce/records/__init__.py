"""What is public about a table, what its records are reduced to, and the engines that hold them."""
