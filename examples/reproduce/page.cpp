// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <normplace/io/atomic_file.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "../gnuplot.hpp"
#include "page_parts.hpp"

namespace reproduce {

namespace {

void require(bool condition, const std::string& sentence) {
    if (!condition) throw std::invalid_argument("write_page: " + sentence);
}

void check(const Page& page) {
    std::set<std::string> names;
    for (const Figure& figure : page.figures)
        for (const Plot& plot : figure.plots) {
            require(!plot.name.empty() && plot.name.find('/') == plot.name.npos,
                    "'" + plot.name + "' is the name of a plot, expected one for a file");
            require(names.insert(plot.name).second, "two plots are called '" + plot.name + "'");
            for (const Series& series : plot.series) {
                const std::string sizes = "'" + series.name + "' of '" + plot.name + "' has " +
                                          std::to_string(series.x.size()) + " x, " + std::to_string(series.y.size()) +
                                          " y and " + std::to_string(series.error.size()) + " errors";
                require(series.x.size() == series.y.size(), sizes);
                require(series.error.empty() || series.error.size() == series.y.size(), sizes);
            }
        }
}

/// Valid UTF-8 without control characters, whatever a file that a text names may be called.
void clean(std::string& text) {
    using Json = nlohmann::json;
    text = Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
    for (char& c : text)
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) c = ' ';
}

Page cleaned(Page page) {
    clean(page.title);
    clean(page.setting);
    for (Figure& figure : page.figures) {
        clean(figure.title);
        clean(figure.setting);
        for (Claim& claim : figure.claims) {
            clean(claim.paper);
            clean(claim.here);
        }
        for (Plot& plot : figure.plots) {
            clean(plot.title);
            clean(plot.x_label);
            clean(plot.y_label);
            clean(plot.name);
            for (Series& series : plot.series) {
                clean(series.name);
                std::replace(series.name.begin(), series.name.end(), '\n', ' ');
            }
        }
    }
    return page;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
    normplace::AtomicFile file(path);
    file.write(text);
    file.commit();
}

std::string read_file(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    if (!stream || text.str().empty()) throw std::runtime_error("'" + path + "' could not be read");
    return text.str();
}

}  // namespace

void write_page(const std::string& folder, const Page& given) {
    check(given);
    const Page page = cleaned(given);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder))
        throw std::runtime_error("the folder '" + folder + "' could not be made" +
                                 (error ? ": " + error.message() : std::string()));
    // In full, because gnuplot takes a name that begins with | for a command.
    const std::filesystem::path path = std::filesystem::absolute(folder);

    std::ostringstream csv, json;
    write_csv(csv, page);
    write_json(json, page);
    write_file(path / "results.csv", csv.str());
    write_file(path / "results.json", json.str());

    std::vector<std::string> svgs;
    if (gnuplot::has_gnuplot())
        for (const Figure& figure : page.figures)
            for (const Plot& plot : figure.plots)
                for (const char* ending : {".png", ".svg"}) {
                    const std::string file = (path / (plot.name + ending)).string();
                    if (!gnuplot::run(gnuplot_script(plot, file)))
                        throw std::runtime_error("gnuplot failed to draw '" + file + "'");
                    if (file.ends_with(".svg")) svgs.push_back(read_file(file));
                }
    write_file(path / "page.html", html(page, svgs));
}

}  // namespace reproduce
