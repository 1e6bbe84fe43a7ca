package ipvs

// Numbers of linux/ip_vs.h. Those that moby/ipvs exports are taken from there; the message
// attributes are private to it.
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
	cmdNewDaemon  = 9
	cmdDelDaemon  = 10
	cmdGetDaemon  = 11
	cmdGetInfo    = 15

	attrService = 1
	attrDest    = 2
	attrDaemon  = 3

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

	// Attributes inside svcStats and svcStats64.
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

	daemonState  = 1
	daemonLink   = 2
	daemonID     = 3
	daemonMaxLen = 4
	daemonGroup  = 5
	daemonGroup6 = 6
	daemonPort   = 7
	daemonTTL    = 8

	destTunnel      = 13
	destTunnelPort  = 14
	destTunnelFlags = 15

	// flagHashed marks a virtual server that is in the kernel's table. Only the kernel sets it.
	flagHashed = 0x2
)
