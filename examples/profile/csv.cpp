// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstdio>

#include "files.hpp"
#include "rows.hpp"

namespace profile {

namespace {

std::string number(double value) {
    if (!std::isfinite(value)) return "";
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

void write_rows(std::ostream& stream, const std::string& placement, const std::string& layer,
                const std::vector<Row>& rows) {
    for (const Row& row : rows)
        stream << placement << ',' << layer << ',' << row.name << ',' << number(row.predicted) << ','
               << number(row.measured) << ',' << number(row.standard_error) << '\n';
}

}  // namespace

void write_csv(std::ostream& stream, const std::vector<PlacementResult>& results) {
    stream << "placement,layer,quantity,predicted,measured,standard_error\n";
    for (const PlacementResult& result : results) {
        const std::string& placement = result.predicted.placement;
        for (std::size_t l = 0; l < result.predicted.layers.size(); ++l)
            write_rows(stream, placement, std::to_string(l + 1), layer_rows(result, l));
        write_rows(stream, placement, "", model_rows(result));
    }
}

}  // namespace profile
