package screen

// Term is one word of a closed list, such as a state: what it means to an operator, and how it looks on a terminal and
// on the web page.
type Term[W ~string] struct {
	Word    W
	Meaning string
	Style   Style
}

// Terms is a closed list of words.
type Terms[W ~string] []Term[W]

// Words returns the words in the order of the list.
func (t Terms[W]) Words() []W {
	words := make([]W, len(t))
	for i := range t {
		words[i] = t[i].Word
	}
	return words
}

// Find returns the term of a word. A word that is not in the list has no meaning and is Plain.
func (t Terms[W]) Find(word W) Term[W] {
	for _, term := range t {
		if term.Word == word {
			return term
		}
	}
	return Term[W]{Word: word}
}
