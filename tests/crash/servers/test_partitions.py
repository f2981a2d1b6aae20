"""The network of a cluster holds back what a server that is cut off sends and receives."""

import socket
from collections.abc import Iterator

import pytest
from partitions import Network


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize(("cut", "passes"), [(0, False), (1, False), (2, True)])
def test_a_server_is_cut_off(listening: socket.socket, cut: int, passes: bool) -> None:
    """Either end of a route; what was held back arrives once the network is whole again."""
    network = Network([listening.getsockname()[1]])
    try:
        with socket.create_connection(("127.0.0.1", network.ports[0])) as one, listening.accept()[0] as other:
            one.sendall(b'INFO {"server_name":"n1"}')
            assert other.recv(100) == b'INFO {"server_name":"n1"}'
            network.cut(cut)
            for end in (one, other):
                end.settimeout(0.05)
                end.sendall(b"PING")
            for end in (one, other):
                if passes:
                    end.settimeout(10)
                    assert end.recv(100) == b"PING"
                else:
                    with pytest.raises(TimeoutError):
                        end.recv(100)
            if not passes:
                network.cut(None)
                for end in (one, other):
                    end.settimeout(10)
                    assert end.recv(100) == b"PING"
    finally:
        network.close()
