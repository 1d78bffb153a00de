package mediator

// Lookup is for the tests of this package that need a network of their own.
var Lookup = lookup
