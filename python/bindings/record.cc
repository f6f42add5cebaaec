#include "record.h"

namespace shardkit::bindings {

namespace nb = nanobind;

nb::str RecordText(nb::handle self) {
  nb::list parts;
  for (const nb::handle name : self.type().attr("__match_args__")) {
    parts.append(nb::str("{}={!r}").format(name, nb::getattr(self, name)));
  }
  return nb::str("{}({})").format(self.type().attr("__name__"), nb::str(", ").attr("join")(parts));
}

bool SameRecords(nb::handle self, nb::handle other) {
  return self.type().is(other.type()) && ReduceRecord(self).equal(ReduceRecord(other));
}

Any ReduceRecord(nb::handle self) {
  nb::list values;
  for (const nb::handle name : self.type().attr("__match_args__")) values.append(nb::getattr(self, name));
  return nb::make_tuple(self.type(), nb::tuple(values));
}

}  // namespace shardkit::bindings
