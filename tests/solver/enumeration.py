"""Coverage sets by brute force: every vertex of every best-response region, in fractions.

Shares no code and no idea with the solver: no margins, no linear programmes, no duals. For games up to about 4 x 4.
"""

from fractions import Fraction
from itertools import combinations

Vector = tuple[Fraction, ...]


def eliminate(matrix: list[list[Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    """Reduced row echelon form, and the pivot columns."""
    matrix, pivots, row = [list(line) for line in matrix], [], 0
    for column in range(len(matrix[0]) if matrix else 0):
        chosen = next((r for r in range(row, len(matrix)) if matrix[r][column] != 0), None)
        if chosen is None:
            continue
        matrix[row], matrix[chosen] = matrix[chosen], matrix[row]
        matrix[row] = [value / matrix[row][column] for value in matrix[row]]
        for other in range(len(matrix)):
            factor = matrix[other][column]
            if other != row and factor != 0:
                matrix[other] = [a - factor * b for a, b in zip(matrix[other], matrix[row], strict=True)]
        pivots.append(column)
        row += 1
    return matrix, pivots


def dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def region_vertices(rows: list[Vector], i: int) -> list[Vector]:
    """Vertices of {p in the simplex : row i is a best response to p}."""
    columns = len(rows[0])
    walls = [tuple(Fraction(j == k) for k in range(columns)) for j in range(columns)]
    walls += [tuple(a - b for a, b in zip(rows[i], row, strict=True)) for row in rows if row != rows[i]]
    found = []
    for tight in combinations(walls, columns - 1):
        system = [[*wall, Fraction(0)] for wall in tight] + [[Fraction(1)] * (columns + 1)]
        reduced, pivots = eliminate(system)
        if pivots != list(range(columns)):
            continue
        point = tuple(line[-1] for line in reduced[:columns])
        if all(dot(wall, point) >= 0 for wall in walls) and point not in found:
            found.append(point)
    return found


def full_dimensional(vertices: list[Vector]) -> bool:
    """Whether the vertices span the simplex: as many affinely independent ones as it has corners."""
    return bool(vertices) and len(eliminate([list(vertex) for vertex in vertices])[1]) == len(vertices[0])


def centre(vertices: list[Vector]) -> Vector:
    return tuple(sum(values, Fraction(0)) / len(vertices) for values in zip(*vertices, strict=True))


def best_rows(rows: list[Vector], point: Vector) -> set[int]:
    values = [dot(row, point) for row in rows]
    return {i for i, value in enumerate(values) if value == max(values)}


def regions(rows: list[Vector]) -> list[list[Vector]]:
    return [region_vertices(rows, i) for i in range(len(rows))]


def smallest_cover(rows: list[Vector]) -> int:
    """Size of the smallest set of rows with a best response to each vertex and centre of every region.

    Trying all sets by size. A set that misses one of these points is no coverage set.
    """
    points = {point for corners in regions(rows) if corners for point in [*corners, centre(corners)]}
    wanted = [best_rows(rows, point) for point in points]
    for size in range(1, len(rows) + 1):
        for chosen in combinations(range(len(rows)), size):
            if all(best & set(chosen) for best in wanted):
                return size
    raise AssertionError("all rows together cover every point")
