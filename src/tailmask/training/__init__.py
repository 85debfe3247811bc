"""From a data set and a method to a trained model with its full record."""
