package file

import "github.com/svcproxy/svcproxy/sources/fields"

// Keys are all keys that a services file may have, in the order to explain them. Decode reads no others.
func Keys() []fields.Key {
	const service = "services.NAME"
	keys := append(documentFields.Keys(""),
		fields.Key{Path: service, Kind: fields.KindTable, Comment: `one service; NAME is its name, or "namespace/name" in quotes`})
	for _, k := range serviceFields.Keys(service + ".") {
		keys = append(keys, k)
		below := k.Path + "[]."
		switch k.Path {
		case service + ".ports":
			keys = append(keys, portFields.Keys(below)...)
		case service + ".loadBalancerIPs":
			keys = append(keys, vipFields.Keys(below)...)
		case service + ".endpoints":
			keys = append(keys, endpointFields.Keys(below)...)
			keys = append(keys, fields.Key{Path: below + "ports.PORTNAME", Kind: fields.KindPort, Min: fields.Port.Min, Max: fields.Port.Max,
				Comment: "the port behind the service port named PORTNAME"})
		}
	}
	return keys
}
