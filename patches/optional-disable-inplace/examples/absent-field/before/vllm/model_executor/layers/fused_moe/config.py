@dataclass
class FusedMoEConfig:
    num_experts: int
    disable_inplace: bool = True
