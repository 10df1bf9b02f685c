"""Subnets and security group of a deployed runner; a VPC of its own when the identity names no subnets."""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from worker.cloud.session import Cloud, is_missing, tag_list
from worker.errors import JobFailed

VPC_CIDR = "10.77.0.0/24"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the service's tasks in the network."""

    subnets: list[str]
    security_groups: list[str]
    has_public_address: bool


def ensure_place(cloud: Cloud) -> Place:
    """Find or make the subnets and an outbound-only security group."""
    network = cloud.target.network
    subnets = [_ensure_own_subnet(cloud)] if network.is_own else list(network.subnets)
    if network.security_groups:
        return Place(subnets, list(network.security_groups), network.is_own)
    return Place(subnets, [_ensure_security_group(cloud, subnets[0])], network.is_own)


def _tagged(cloud: Cloud, kind: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tag_list({"Name": cloud.target.name, **cloud.target.tags})}]


def _mine(cloud: Cloud) -> list[dict[str, Any]]:
    return [{"Name": "tag:runyard:worker-id", "Values": [cloud.target.worker_id]}]


def _ensure_own_subnet(cloud: Cloud) -> str:
    vpc = _ensure_vpc(cloud)
    ec2 = cloud.client("ec2")
    found = ec2.describe_subnets(Filters=_mine(cloud))["Subnets"]
    if found:
        subnet = found[0]["SubnetId"]
    else:
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=VPC_CIDR, TagSpecifications=_tagged(cloud, "subnet"))
        subnet = made["Subnet"]["SubnetId"]
        cloud.say(f"Created subnet {subnet}")
    _ensure_way_out(cloud, vpc)
    return str(subnet)


def _ensure_vpc(cloud: Cloud) -> str:
    ec2 = cloud.client("ec2")
    found = ec2.describe_vpcs(Filters=_mine(cloud))["Vpcs"]
    if found:
        return str(found[0]["VpcId"])
    vpc = ec2.create_vpc(CidrBlock=VPC_CIDR, TagSpecifications=_tagged(cloud, "vpc"))["Vpc"]["VpcId"]
    cloud.say(f"Created VPC {vpc}")
    return str(vpc)


def _ensure_way_out(cloud: Cloud, vpc: str) -> None:
    """Attach an internet gateway and route to it: the runner only ever calls out."""
    ec2 = cloud.client("ec2")
    found = ec2.describe_internet_gateways(Filters=_mine(cloud))["InternetGateways"]
    if found:
        gateway, attached = found[0]["InternetGatewayId"], bool(found[0]["Attachments"])
    else:
        made = ec2.create_internet_gateway(TagSpecifications=_tagged(cloud, "internet-gateway"))
        gateway, attached = made["InternetGateway"]["InternetGatewayId"], False
        cloud.say(f"Created internet gateway {gateway}")
    if not attached:
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    routes = tables[0]["Routes"]
    if not any(route.get("GatewayId") == gateway for route in routes):
        ec2.create_route(RouteTableId=tables[0]["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)


def _ensure_security_group(cloud: Cloud, subnet: str) -> str:
    ec2 = cloud.client("ec2")
    found = ec2.describe_security_groups(Filters=_mine(cloud))["SecurityGroups"]
    if found:
        cloud.say(f"Security group {found[0]['GroupId']} stands already")
        return str(found[0]["GroupId"])
    subnets = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    if not subnets:
        raise JobFailed(f"Subnet {subnet} was not found.", code="cloud_subnet", hint="Correct the cloud identity.")
    made = ec2.create_security_group(
        GroupName=cloud.target.name,
        Description=f"Runyard runner {cloud.target.worker_id}: outbound only",
        VpcId=subnets[0]["VpcId"],
        TagSpecifications=_tagged(cloud, "security-group"),
    )
    cloud.say(f"Created security group {made['GroupId']}, outbound only")
    return str(made["GroupId"])


def remove_place(cloud: Cloud) -> None:
    """Delete the security group and, where it was made for this runner, the VPC; matched by tag, so nothing else goes."""
    ec2 = cloud.client("ec2")
    for group in ec2.describe_security_groups(Filters=_mine(cloud))["SecurityGroups"]:
        _delete(
            cloud, "security group", group["GroupId"], lambda g=group: ec2.delete_security_group(GroupId=g["GroupId"])
        )
    for gateway in ec2.describe_internet_gateways(Filters=_mine(cloud))["InternetGateways"]:
        for link in gateway["Attachments"]:
            ec2.detach_internet_gateway(InternetGatewayId=gateway["InternetGatewayId"], VpcId=link["VpcId"])
        name = gateway["InternetGatewayId"]
        _delete(cloud, "internet gateway", name, lambda n=name: ec2.delete_internet_gateway(InternetGatewayId=n))
    for subnet in ec2.describe_subnets(Filters=_mine(cloud))["Subnets"]:
        _delete(cloud, "subnet", subnet["SubnetId"], lambda s=subnet: ec2.delete_subnet(SubnetId=s["SubnetId"]))
    for vpc in ec2.describe_vpcs(Filters=_mine(cloud))["Vpcs"]:
        _delete(cloud, "VPC", vpc["VpcId"], lambda v=vpc: ec2.delete_vpc(VpcId=v["VpcId"]))


def _delete(cloud: Cloud, kind: str, name: str, act: Any) -> None:
    try:
        act()
    except ClientError as problem:
        if not is_missing(problem):
            raise
    cloud.say(f"Deleted {kind} {name}")
