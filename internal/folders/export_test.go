package folders

// What tests look at.
var Glance = glance

const MaxEntries = maxEntries
