package cockpit

// ShownFile keeps the cards of one process.
type ShownFile struct{ shownFile }

// OpenShown begins a file of cards, and names those that processes which are gone have left.
func OpenShown(state string) (file ShownFile, left []string, err error) {
	mine, cards, err := openShown(state)
	for _, card := range cards {
		left = append(left, card.ID+" "+string(card.To)+" "+card.Title)
	}
	return ShownFile{mine}, left, err
}

// Shows keeps a card.
func (s ShownFile) Shows(id, title string) error {
	return s.add(shown{ID: id, To: "telegram:42", Digest: "d", Title: title})
}

// Ends says that a card is over.
func (s ShownFile) Ends(id string) error { return s.add(shown{ID: id}) }

// Close is the end of its process.
func (s ShownFile) Close() error { return s.close() }
