"""What somebody is told of a commit, and how it reaches them."""
