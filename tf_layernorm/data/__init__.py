"""One module a data set; each ends in a `tf.data.Dataset`."""
