package ipvs

// Numbers of linux/ip_vs.h.
const (
	familyName    = "IPVS"
	familyVersion = 1

	cmdNewService = 1
	cmdSetService = 2
	cmdDelService = 3
	cmdGetService = 4
	cmdNewDest    = 5
	cmdSetDest    = 6
	cmdDelDest    = 7
	cmdGetDest    = 8
	cmdSetConfig  = 12

	attrService = 1
	attrDest    = 2

	attrTimeoutTCP    = 4
	attrTimeoutTCPFin = 5
	attrTimeoutUDP    = 6

	svcFamily    = 1
	svcProtocol  = 2
	svcAddr      = 3
	svcPort      = 4
	svcFWMark    = 5
	svcScheduler = 6
	svcFlags     = 7
	svcTimeout   = 8
	svcNetmask   = 9
	svcStats     = 10
	svcStats64   = 12

	// Inside both of them.
	statsConns      = 1
	statsInPackets  = 2
	statsOutPackets = 3
	statsInBytes    = 4
	statsOutBytes   = 5

	destAddr    = 1
	destPort    = 2
	destForward = 3
	destWeight  = 4
	destUpper   = 5
	destLower   = 6
	destActive  = 7
	destInact   = 8
	destPersist = 9
	destFamily  = 11

	// flagHashed is the kernel's own mark on a virtual server that is in its table.
	flagHashed = 0x2

	// forwardMask takes the forwarding method out of a real server's connection flags.
	forwardMask = 0x7
)
