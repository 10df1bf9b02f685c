"""The settings of the Realtime server; the defaults are hosted's numbers."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class RealtimeSettings(BaseSettings):
    """Read from `RUNYARD_REALTIME_*`; limits default to those of hosted's plan without a spend cap."""

    model_config = SettingsConfigDict(env_prefix="RUNYARD_REALTIME_", frozen=True)

    allow_public: bool = Field(
        default=False, description="Public channels and anonymous joins; hosted has the same switch"
    )
    max_frame_bytes: int = Field(default=5_000_000, description="Largest frame a client may send")
    max_connections: int = Field(default=10_000, description="Sockets with a joined channel at once")
    max_channels_per_socket: int = Field(default=100, description="Channels on one socket")
    max_joins_per_minute: int = Field(default=150_000, description="Joins in a minute")
    max_record_bytes: int = Field(default=1_048_576, description="A larger change is sent without its big values")

    connect_error_seconds: float = Field(default=2, description="Wait before a handshake is refused")
    channel_error_seconds: float = Field(default=5, description="Wait before a join is refused")
    idle_seconds: float = Field(default=60, description="A socket that sends nothing for so long is closed")
    no_channel_seconds: float = Field(default=600, description="A socket with no channel is closed after this")
    token_check_seconds: float = Field(
        default=60, description="How often a channel's token and rights are checked again; hosted: 300"
    )
    checks_per_second: float = Field(
        default=20,
        description="About how many channels are checked again in a second; with more of them each waits longer",
    )
    session_check_seconds: float = Field(
        default=2, description="How often sessions are checked: the channels of an ended one are closed"
    )
    token_throttle_seconds: float = Field(default=1, description="New tokens of one channel are applied this far apart")
    resubscribe_min_seconds: float = Field(default=0, description="Shortest wait before a new token's subscription")
    resubscribe_max_seconds: float = Field(default=0.05, description="Longest wait; hosted takes 1 to 3 s")
    retry_min_seconds: float = Field(default=5, description="Shortest wait before a failed subscription is tried again")
    retry_max_seconds: float = Field(default=10, description="Longest such wait")
    stream_retry_seconds: float = Field(default=0.5, description="Wait before the WAL stream is opened again")
    publication_seconds: float = Field(default=60, description="How often the publication is read again")

    queue_frames: int = Field(default=10_000, description="Frames that may wait for one slow socket")
    queue_bytes: int = Field(default=16_000_000, description="Bytes that may wait for one slow socket")
    pool_size: int = Field(default=4, description="Database connections for joins and policies")
    database_timeout_seconds: float = Field(default=5, description="Wait for a database connection")
    policy_timeout_seconds: float = Field(default=3, description="Longest check of one batch against policies")
    batch_changes: int = Field(default=100, description="Changes checked against RLS in one go")
    stream_backlog: int = Field(default=2_000, description="Decoded changes that may wait before reading stops")

    def check_seconds(self, channels: int) -> float:
        """Return how often each of so many channels is checked again: thousands of idle ones must not keep a database busy."""
        return max(self.token_check_seconds, channels / self.checks_per_second)
