package file

import "github.com/svcproxy/svcproxy/sources/fields"

// Keys are all keys that a services file may have, in the order to explain them. Decode reads no others.
func Keys() []fields.Key {
	const service, check = "services.NAME", "healthChecks.NAME"
	keys := documentFields.Keys("")
	keys = append(keys, fields.Key{Path: check, Kind: fields.KindStringOrTable,
		Comment: "one health check, with the keys of a service's healthCheck; other files do not see it"})
	keys = append(keys, checkKeys(check+".")...)
	keys = append(keys, fields.Key{Path: service, Kind: fields.KindTable, Comment: `one service; NAME is its name, or ` +
		`"namespace/name" in quotes`})
	for _, k := range serviceFields().Keys(service + ".") {
		keys = append(keys, k)
		below := k.Path + "[]."
		switch k.Path {
		case service + ".ports":
			keys = append(keys, portFields.Keys(below)...)
		case service + ".vips", service + ".loadBalancerIPs":
			keys = append(keys, vipFields.Keys(below)...)
		case service + ".limits":
			keys = append(keys, limitFields.Keys(k.Path+".")...)
		case service + ".healthCheck":
			keys = append(keys, checkKeys(k.Path+".")...)
		case service + ".backends", service + ".endpoints":
			keys = append(keys, endpointFields().Keys(below)...)
			keys = append(keys, fields.Key{Path: below + "ports.PORTNAME", Kind: fields.KindPort, Min: fields.Port.Min,
				Max:     fields.Port.Max,
				Comment: "the port behind the service port named PORTNAME"})
		}
	}
	return keys
}

// checkKeys are the keys of a health check below a path.
func checkKeys(path string) []fields.Key {
	var keys []fields.Key
	for _, k := range checkFields().Keys(path) {
		if keys = append(keys, k); k.Path == path+"headers" {
			keys = append(keys, fields.Key{Path: k.Path + ".HEADER", Kind: fields.KindString, Comment: "the value of the " +
				"header named HEADER"})
		}
	}
	return keys
}
