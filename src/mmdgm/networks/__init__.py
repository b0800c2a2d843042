"""Networks: layers, multilayer perceptrons, conv nets, architectures, likelihoods."""
