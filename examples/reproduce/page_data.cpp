// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "page_parts.hpp"

namespace reproduce {

using Json = nlohmann::ordered_json;

namespace {

Json numbers(const std::vector<double>& values) {
    Json array = Json::array();
    for (const double value : values) array.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
    return array;
}

const char* name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::holds: return "holds";
        case Verdict::does_not_hold: return "does not hold";
        case Verdict::undecided: break;
    }
    return "undecided";
}

Json json(const Plot& plot) {
    Json series = Json::array();
    for (const Series& s : plot.series)
        series.push_back({{"name", s.name},
                          {"points", s.points},
                          {"x", numbers(s.x)},
                          {"y", numbers(s.y)},
                          {"standard_error", numbers(s.error)}});
    return {{"name", plot.name},       {"title", plot.title}, {"x_label", plot.x_label},
            {"y_label", plot.y_label}, {"log_y", plot.log_y}, {"series", series}};
}

Json json(const Figure& figure) {
    Json plots = Json::array(), claims = Json::array();
    for (const Plot& plot : figure.plots) plots.push_back(json(plot));
    for (const Claim& claim : figure.claims)
        claims.push_back({{"paper", claim.paper}, {"here", claim.here}, {"verdict", name_of(claim.verdict)}});
    return {{"title", figure.title}, {"setting", figure.setting}, {"claims", claims}, {"plots", plots}};
}

std::string field(const std::string& text) {
    if (text.find_first_of(",\"\n") == text.npos) return text;
    std::string result = "\"";
    for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + '"';
}

std::string field(double value) {
    if (!std::isfinite(value)) return "";
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

}  // namespace

void write_json(std::ostream& stream, const Page& page) {
    Json figures = Json::array();
    for (const Figure& figure : page.figures) figures.push_back(json(figure));
    const Json document{{"title", page.title}, {"setting", page.setting}, {"figures", figures}};
    stream << document.dump(2) << '\n';
}

void write_csv(std::ostream& stream, const Page& page) {
    stream << "figure,plot,series,x,y,standard_error\n";
    for (const Figure& figure : page.figures)
        for (const Plot& plot : figure.plots)
            for (const Series& series : plot.series)
                for (std::size_t i = 0; i < series.x.size(); ++i)
                    stream << field(figure.title) << ',' << field(plot.name) << ',' << field(series.name) << ','
                           << field(series.x[i]) << ',' << field(series.y[i]) << ','
                           << (series.error.empty() ? "" : field(series.error[i])) << '\n';
}

}  // namespace reproduce
