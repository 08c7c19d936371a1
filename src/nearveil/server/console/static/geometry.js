// Places on the map: Web Mercator, scaled so that one unit is one metre on the ground in the middle of the region.

const RADIUS_M = 6378137;
const radians = (degrees) => degrees * Math.PI / 180;
const mercator = (latitude) => Math.asinh(Math.tan(radians(latitude)));

export class Frame {
  constructor(region) {
    [this.latitude, this.longitude] = region.centre;
    this.scale = RADIUS_M * Math.cos(radians(this.latitude));
    this.box = [
      ...this.xy([region.south, region.west]),
      ...this.xy([region.north, region.east]),
    ];
  }

  xy([latitude, longitude]) {
    // Across the antimeridian as well.
    const east = ((longitude - this.longitude + 540) % 360) - 180;
    return [this.scale * radians(east), this.scale * (mercator(latitude) - mercator(this.latitude))];
  }

  // The map's metres for one on the ground, at a latitude.
  stretch(latitude) {
    return Math.cos(radians(this.latitude)) / Math.cos(radians(latitude));
  }

  // A circle on the ground as a closed line.
  circle(centre, radiusM, corners = 120) {
    const [x, y] = this.xy(centre);
    const radius = radiusM * this.stretch(centre[0]);
    const angles = Array.from({ length: corners + 1 }, (_, i) => 2 * Math.PI * i / corners);
    return { x: angles.map((a) => x + radius * Math.cos(a)), y: angles.map((a) => y + radius * Math.sin(a)) };
  }

  // Tiles that cover a view, as Plotly's images, at a zoom that suits the number of pixels.
  tiles(address, [west, south, east, north], width) {
    const world = 2 * Math.PI * this.scale;
    const zoom = Math.min(19, Math.max(0, Math.round(Math.log2(world / (east - west) * width / 256))));
    const number = 2 ** zoom;
    const side = world / number;
    const left = -world * (this.longitude + 180) / 360;
    const top = world / 2 - this.scale * mercator(this.latitude);
    const images = [];
    for (let column = Math.floor((west - left) / side); column <= Math.floor((east - left) / side); column++) {
      for (let row = Math.floor((top - north) / side); row <= Math.floor((top - south) / side); row++) {
        if (row < 0 || row >= number || images.length >= 64) continue;
        const x = ((column % number) + number) % number;
        const source = address.replace("{z}", zoom).replace("{x}", x).replace("{y}", row).replace("{s}", "a");
        images.push({ source, xref: "x", yref: "y", layer: "below", sizing: "stretch",
          x: left + column * side, y: top - row * side, sizex: side, sizey: side });
      }
    }
    return images;
  }
}

// Distance on the ground between two places that are near each other.
export function distanceM([latitude, longitude], [otherLatitude, otherLongitude]) {
  const east = radians(((otherLongitude - longitude + 540) % 360) - 180) * Math.cos(radians((latitude + otherLatitude) / 2));
  return RADIUS_M * Math.hypot(east, radians(otherLatitude - latitude));
}

// Several lines in one trace, with gaps between them.
export function joined(lines) {
  const x = [], y = [];
  for (const line of lines) {
    x.push(...line.x, null);
    y.push(...line.y, null);
  }
  return { x, y };
}
