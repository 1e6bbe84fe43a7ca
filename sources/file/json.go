package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/BurntSushi/toml"
)

// maxDepth is how deep a services file nests at most, with room.
const maxDepth = 20

// fromJSON writes a JSON object as TOML. Errors name the key.
func fromJSON(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	object, err := jsonValue(d, "", 0)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		line := 1 + bytes.Count(text[:min(int(d.InputOffset()), len(text))], []byte("\n"))
		return nil, fmt.Errorf("line %d of the JSON: %w", line, err)
	}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(object); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// jsonValue reads a value with the types of TOML, which has no null. A key is given once, as in TOML.
func jsonValue(d *json.Decoder, key string, depth int) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, err
	case depth > maxDepth:
		return nil, fmt.Errorf("%s: nested too deep", key)
	}
	switch v := token.(type) {
	case nil:
		return nil, fmt.Errorf("%s: null is no value here: leave the key out", key)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case json.Delim:
		if v == '[' {
			list := []any{}
			for d.More() {
				item, err := jsonValue(d, key, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, item)
			}
			_, err := d.Token()
			return list, err
		}
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			of := name.(string)
			if key != "" {
				of = key + "." + of
			}
			if _, twice := object[name.(string)]; twice {
				return nil, fmt.Errorf("%s is given twice", of)
			}
			if object[name.(string)], err = jsonValue(d, of, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return object, err
	}
	return token, nil
}
